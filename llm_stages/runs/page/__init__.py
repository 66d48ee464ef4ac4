"""A run file as one HTML page, which opens from disk and needs no network.

Modules:
    view    the runs of a file as plain data, in the order in which the page shows them
    html    the page: the data, the style sheet and the script in one text
    server  the page of a growing file, on the loopback interface

`page.html`, `page.css` and `page.js` are plain files without a framework. The script shows all
texts of users, models and tools as text, never as HTML.
"""
