"""The wrapper that runs on the ranks of a task: it sets TF_CONFIG, and starts and ends the user's programs.

This folder travels with the task as a zip file, where it is called `tfsteps_ranks`, and runs on the ranks' Python, 3.7
or newer: standard library only. Of the rest of tfsteps only `systems/restart_policy.py` travels with it. HAI names
rank 0 alone, and notifies it alone. So rank 0 also runs the coordinator: every rank's agent connects to it, sends its
address, and obeys its commands.
"""
