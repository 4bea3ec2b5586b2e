// Lets the suite in: it has no option for a token, so each of its requests that brings none gets ours.
import http from "node:http";
import { getGlobalDispatcher, setGlobalDispatcher } from "undici";

const authorization = `Bearer ${process.env.TOKEN}`;

const letIn = (dispatch) => (options, handler) => {
  const headers = new Headers(options.headers ?? {});
  if (!headers.has("authorization")) headers.set("authorization", authorization);
  return dispatch({ ...options, headers: Object.fromEntries(headers) }, handler);
};
setGlobalDispatcher(getGlobalDispatcher().compose(letIn));

const request = http.request;
http.request = (...given) => {
  const sent = request(...given);
  if (!sent.hasHeader("authorization")) sent.setHeader("authorization", authorization);
  return sent;
};
