"""Jobs of schedulers: files that list the hosts and times of each job, the links of a fabric that a job may use, and
the causes of failed jobs."""
