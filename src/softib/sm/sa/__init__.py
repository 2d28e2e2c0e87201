"""The subnet administrator (IBA 15): it answers queries about the subnet from the data that its
manager learned through MADs.

``administrator`` takes requests and returns answers. ``methods`` selects the function for each
request. ``message`` has requests, answers and the component mask, ``subnet`` the columns of the
last sweep. Each kind of record with special rules has its own file; kinds that are plain tables are
together in ``record_tables``.
"""
