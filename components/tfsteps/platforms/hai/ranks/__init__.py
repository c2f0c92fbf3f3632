"""The wrapper that runs on the ranks of a task: it sets TF_CONFIG, and starts and stops the user's programs.

This folder is sent with the task as a zip file, in which it is called `tfsteps_ranks`. It runs on the ranks' Python,
3.7 or newer, with the standard library only. The only other modules of tfsteps in it are `systems/restart_policy.py`
and `systems/expansion.py`. HAI
gives all ranks the address of rank 0, and notifies only rank 0. Therefore rank 0 also runs the coordinator: the agent
of every rank connects to it, sends its address, and executes its commands.
"""
