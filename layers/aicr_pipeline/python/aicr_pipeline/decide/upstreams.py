"""Where a chart's source is reached from here: ``registry.upstreams`` of the cluster's configuration.

Sites without the internet, and the local engine, serve the publishers' charts from other addresses. The
plan always names the source as the bundle does; only the request goes elsewhere.
"""

from collections.abc import Mapping


def rewrite(url: str, upstreams: Mapping[str, str]) -> str:
    """Replace the longest configured prefix of an address.

    Parameters
    ----------
    url:
        ``https://…`` or ``oci://…`` as the bundle or an index names it.
    upstreams:
        Prefix to replacement. A prefix matches whole path segments only.

    Returns
    -------
    str
        The address to ask, the given one when no prefix matches.
    """
    for prefix in sorted(upstreams, key=len, reverse=True):
        stem = prefix.rstrip("/")
        if url == stem or url.startswith(f"{stem}/"):
            return upstreams[prefix].rstrip("/") + url[len(stem) :]
    return url
