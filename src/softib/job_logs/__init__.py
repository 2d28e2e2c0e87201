"""What failed jobs, kernels and managers print, read as events: :func:`softib.job_logs.read.read_logs`."""
