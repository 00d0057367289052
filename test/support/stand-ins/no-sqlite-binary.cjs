/**
 * Preloaded (`node --require`), it makes better-sqlite3's compiled part as unloadable as after a change of Node.js.
 */
const load = process.dlopen
process.dlopen = (module, filename, ...rest) => {
  if (!/better.sqlite3.*\.node$/.test(filename)) return load(module, filename, ...rest)
  throw Object.assign(new Error(`The module '${filename}' was compiled against a different Node.js version`), {
    code: 'ERR_DLOPEN_FAILED',
  })
}
