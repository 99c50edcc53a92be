"use strict";

// Who is signed in to the console may try operations here; unsafe ones need the token of its cookie.
const csrfToken = () => {
  const cookie = document.cookie.split("; ").find((one) => /^(__Host-)?csrftoken=/.test(one));
  return cookie ? cookie.slice(cookie.indexOf("=") + 1) : "";
};

SwaggerUIBundle({
  url: "/api/schema/",
  dom_id: "#swagger-ui",
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  deepLinking: true,
  requestInterceptor: (request) => {
    if (!["GET", undefined].includes(request.method)) {
      request.headers["X-CSRFToken"] = csrfToken();
    }
    return request;
  },
});
