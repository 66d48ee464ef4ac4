"""Answer a question with a typed value instead of text (structured output).

.venv/bin/python examples/programs/typed_answer.py

Without a key, the embedded model answers:
22 degrees in Rome; JSON: {"city": "Rome", "temp": 22}
"""

import asyncio

from pydantic import BaseModel

from stage3_tools import ask, tool


class Weather(BaseModel):
    """The typed reply."""

    city: str
    temp: int


@tool(effect="read")
def get_weather(city: str) -> dict[str, object]:
    """Get the weather in a city (invented data)."""
    return {"city": city, "temp": 22}


async def main() -> None:
    result = await ask("How is the weather in Rome?", tools=[get_weather], output_type=Weather)
    weather: Weather = result.output
    print(f"{weather.temp} degrees in {weather.city}; JSON: {result.reply}")


asyncio.run(main())
