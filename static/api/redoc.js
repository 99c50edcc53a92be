"use strict";

// Redoc's footer would fetch its makers' logo: nothing that is served here asks another host.
const isOurs = (address) => new URL(address, location).origin === location.origin;
const { setAttribute } = Element.prototype;
Element.prototype.setAttribute = function (name, value) {
  if (name !== "src" || isOurs(value)) setAttribute.call(this, name, value);
};
const source = Object.getOwnPropertyDescriptor(HTMLImageElement.prototype, "src");
Object.defineProperty(HTMLImageElement.prototype, "src", {
  ...source,
  set(value) {
    if (isOurs(value)) source.set.call(this, value);
  },
});

// The search index is built in a worker from a blob, which the content policy does not allow.
Redoc.init("/api/schema/", { disableSearch: true }, document.getElementById("redoc"));
