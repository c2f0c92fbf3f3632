"""What runs on the ranks of a task, in place of the user's program: makes TF_CONFIG, starts and ends the programs.

This folder travels with the task as a zip file, where it is called `tfsteps_ranks`, and runs on the ranks' Python, 3.7
or newer: standard library only. Of the rest of tfsteps only `systems/restart_policy.py` travels with it. HAI names
rank 0 alone, and notifies it alone. So rank 0 also holds the coordinator: every rank's agent connects to it, tells its
address, and does what it is told.
"""
