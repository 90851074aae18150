"""Load tests: drive a running system over HTTP, record every query, report afterwards."""
