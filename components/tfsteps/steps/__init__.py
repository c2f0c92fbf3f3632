"""The steps of a pipeline: a folder each, with the component that authors import and the program that its pod runs."""
