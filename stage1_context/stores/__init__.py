"""Store journals on disk, and export sessions.

Modules:
    sqlite             SqliteStore: one file on one machine
    sqlite_file        open a SQLite file and create its tables
    postgres           PostgresStore: a database for several machines
    postgres_schema    the tables and statements of PostgresStore
    export             a session as text
"""
