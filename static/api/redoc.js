"use strict";

// The search index is built in a worker from a blob, which the content policy does not allow.
Redoc.init("/api/schema/", { disableSearch: true, hideDownloadButton: false }, document.getElementById("redoc"));
