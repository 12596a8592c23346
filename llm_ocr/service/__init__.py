"""The service: gateways accept documents over HTTP, workers process them, clients get the results.

All processes share a database (PostgreSQL, or SQLite on one machine) and a storage (a folder, S3 or
GCS). The database holds the queue, the states and the events; the storage holds all content.
"""
