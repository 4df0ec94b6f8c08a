"""A page that is open, and everything that the browser complains about."""

from __future__ import annotations

from playwright.sync_api import BrowserContext, ConsoleMessage, Page


def opened(context: BrowserContext, address: str) -> tuple[Page, list[str]]:
    """The page, and a list that grows with each error, exception and dialog."""
    page = context.new_page()
    complaints: list[str] = []

    def heard(message: ConsoleMessage) -> None:
        if message.type == "error":
            complaints.append(message.text)

    page.on("console", heard)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}") or dialog.dismiss())
    page.goto(address)
    return page, complaints
