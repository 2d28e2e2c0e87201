"""Jobs of schedulers: files with the hosts and times of each job, and the links that each may use
on a fabric."""
