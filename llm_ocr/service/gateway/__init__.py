"""The gateway: the HTTP API of the service. It stores and serves documents, and parses none."""
