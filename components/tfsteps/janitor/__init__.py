"""The janitor: deletes what lost launchers left on a cluster, and jobs whose retention time has passed."""
