"""Platform settings: what operators add to jobs, require of them and limit; one document for a namespace or a file."""
