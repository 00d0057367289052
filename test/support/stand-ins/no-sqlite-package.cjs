/**
 * Preloaded (`node --require`), it makes better-sqlite3 as absent as npm leaves it when the install of an optional package fails.
 */
const Module = require('node:module')

const resolve = Module._resolveFilename
Module._resolveFilename = (request, ...rest) => {
  if (!/^better-sqlite3(?:-\d+)?$/.test(request)) return resolve(request, ...rest)
  throw Object.assign(new Error(`Cannot find module '${request}'`), { code: 'MODULE_NOT_FOUND' })
}
