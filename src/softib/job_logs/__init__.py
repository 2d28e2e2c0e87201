"""Output of failed jobs, kernels and managers, read as events: :func:`softib.job_logs.read.read_logs`."""
