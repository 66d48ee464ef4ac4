"""An agent over a SQLite database, with approval, streaming and a stored session.

.venv/bin/python examples/programs/database_agent.py "question" [--session NAME] [--db FILE]

The database is `shop.db` and the sessions are stored in `sessions.db`, both in the current folder.
A database that does not exist is created, and is empty. A call of `insert_row` asks for approval.
"""

import argparse
import asyncio
import csv
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from stage0_gateway import Gateway, GatewayError
from stage1_context import ContextEngine, KeepSystemAndRecent, SqliteStore
from stage3_tools import ApprovalRequest, NativeDialect, ToolError, ToolLoopDeps, run_events, tool

PROMPT = "You answer from a SQLite database."


class Database:
    """The tools over one database file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def tools(self) -> list[Any]:
        """Two read tools, one write tool that needs approval, one idempotent export."""
        read = tool(effect="read")
        insert = tool(effect="write", needs_approval=True)(self.insert_row)
        export = tool(effect="idempotent")(self.export_csv)
        return [read(self.show_schema), read(self.run_query), insert, export]

    def show_schema(self) -> list[str]:
        """Show the schema of the database: its tables and columns."""
        with closing(sqlite3.connect(self.path)) as db:
            rows = db.execute("select sql from sqlite_master where sql is not null")
            return [row[0] for row in rows]

    def run_query(self, sql: str) -> list[dict[str, Any]]:
        """Run a SELECT query and return its rows.

        Args:
            sql: One SELECT statement.
        """
        with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as db:
            db.row_factory = sqlite3.Row
            try:
                return [dict(row) for row in db.execute(sql).fetchmany(100)]
            except sqlite3.Error as error:
                raise ToolError("validation", str(error), hint="Look at show_schema.") from None

    def insert_row(self, table: str, values: dict[str, str | int | float | None]) -> str:
        """Insert one row into a table.

        Args:
            table: Name of the table.
            values: Column names and values.
        """
        with closing(sqlite3.connect(self.path)) as db, db:
            rows = db.execute("select name from sqlite_master where type = 'table'")
            tables = [row[0] for row in rows]
            if table not in tables:
                hint = f"Tables: {tables}"
                raise ToolError("not_found", f"There is no table {table!r}.", hint=hint)
            columns = ", ".join(f'"{name}"' for name in values)
            marks = ", ".join("?" for _ in values)
            statement = f'insert into "{table}" ({columns}) values ({marks})'
            try:
                db.execute(statement, list(values.values()))
            except sqlite3.Error as error:
                raise ToolError("validation", str(error), hint="Look at show_schema.") from None
        return "1 row inserted."

    def export_csv(self, sql: str, file: str) -> str:
        """Export the rows of a SELECT query to a CSV file.

        Args:
            sql: One SELECT statement.
            file: Name of the file, such as "people.csv".
        """
        rows = self.run_query(sql)
        name = Path(file).name
        with open(name, "w", newline="") as out:
            if rows:
                writer = csv.DictWriter(out, rows[0].keys())
                writer.writeheader()
                writer.writerows(rows)
        return f"{len(rows)} rows in {name}."


async def approve(request: ApprovalRequest) -> bool:
    question = f"\n  Run {request.tool} {request.arguments}? [y/N] "
    return (await asyncio.to_thread(input, question)).strip().lower() == "y"


async def answer(question: str, session: str, db: Path) -> None:
    window = KeepSystemAndRecent(max_tokens=20_000)
    engine = ContextEngine(store=SqliteStore("sessions.db"), window=window)
    async with Gateway.from_env() as gateway, engine:
        await engine.create_session(session, system_prompt=PROMPT, exist_ok=True)
        tools = Database(db).tools()
        deps = ToolLoopDeps(gateway, engine, tool_registry=tools, stream=True)
        dialect = NativeDialect()
        async for event in run_events(deps, session, question, dialect=dialect, approve=approve):
            if event.name == "reply_text":
                print(event.delta, end="", flush=True)
            elif event.name == "tool_call":
                print(f"\n  [{event.call.name} {event.call.arguments}]")
            elif event.name == "tool_result":
                print(f"  -> {event.result.status}: {str(event.result.output)[:150]}")
            elif event.name == "loop_end":
                print(f"\n-- {event.status} ({event.tool_rounds} rounds)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("question")
    parser.add_argument("--session", default="default")
    parser.add_argument("--db", type=Path, default=Path("shop.db"))
    try:
        asyncio.run(answer(**vars(parser.parse_args())))
    except GatewayError as error:
        raise SystemExit(f"The model could not be asked: {error}") from None
