"""Interfaces of other packages, so that existing scripts run."""
