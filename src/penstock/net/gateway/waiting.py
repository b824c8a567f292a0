"""Ending tasks so that nothing of them is left over."""

import asyncio
from typing import Any


async def cancelled(*tasks: "asyncio.Task[Any]") -> None:
    """Cancel tasks and wait until they have ended, however they do."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
