"""What brokers log, of which strangers may have chosen a part: names, reasons, texts of filters."""

import logging
from typing import Final

from penstock.errors import printable


def _escape(record: logging.LogRecord) -> bool:
    """Have a record without control characters, whatever handlers a program has."""
    record.msg, record.args = printable(record.getMessage()), ()
    return True


LOG: Final = logging.getLogger("penstock.net")
"""Use this one: what is logged through it is escaped."""

LOG.addFilter(_escape)
