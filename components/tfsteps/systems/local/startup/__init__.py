"""What every Python program of a local run loads at its start. Nothing of tfsteps imports it."""
