"""The chat API: requests, the server, and how both are started."""
