"""The command line: it parses options, shows progress, and leaves the work to other packages."""
