"""From a job description to pods and job objects. Pure."""
