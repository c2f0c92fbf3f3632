"""Notifications of events of a job, sent to webhooks."""
