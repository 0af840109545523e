"""What the build was made with. The build replaces this file."""

from typing import Any

BUILD: dict[str, Any] = {"tags": [], "go": "", "limited_api": False, "python": ""}
