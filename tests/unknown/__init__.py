"""Every request of every story of a launcher's life, met by every fault: see stories.py, faults.py and judge.py."""
