"""What a person does who signs in for the first time: sets a password of one's own."""

from __future__ import annotations

import httpx

OWN = "a password of my own"
_ADDRESS = "/account/password/"


def set_own_password(browser: httpx.Client, given: str, referer: str = "") -> httpx.Response:
    """Set another password than the one that was given, where the first page led to; returns what comes then."""
    form = {"password": given, "new": OWN, "again": OWN, "csrfmiddlewaretoken": browser.cookies["csrftoken"]}
    referer = referer or str(browser.build_request("GET", _ADDRESS).url)
    return browser.post(_ADDRESS, data=form, headers={"referer": referer})
