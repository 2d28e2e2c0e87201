"""The subnet administrator (IBA 15): answers questions about the subnet from the data that its
manager learned by MADs.

``administrator`` takes requests and gives answers, ``methods`` chooses the function for each,
``message`` has requests, answers and the component mask, ``subnet`` the columns of the last sweep.
Records with rules of their own have a file each; those that are plain tables share
``record_tables``.
"""
