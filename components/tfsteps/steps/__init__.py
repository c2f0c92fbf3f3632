"""The steps of a pipeline. Each has a folder with the component that authors import and the program that pods run."""
