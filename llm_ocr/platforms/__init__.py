"""Where a run happens, if not in the process that was started."""
