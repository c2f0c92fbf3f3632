"""Every request of every scenario of a launcher's life, met by every fault: scenarios.py, faults.py and judge.py."""
