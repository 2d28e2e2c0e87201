"""The subnet administrator (IBA 15): answers queries about the subnet from the data that its manager learned by MADs.

``administrator`` takes requests and returns answers, ``methods`` chooses the function for each, ``message`` has
requests, answers and the component mask, ``subnet`` the columns of the last sweep.
Records with their own rules have a file each; those that are plain tables share ``record_tables``.
"""
