/**
 * Preloaded (`node --require`), it makes ONNX Runtime's compiled part as unloadable as on a system without glibc.
 */
const load = process.dlopen
process.dlopen = (module, filename, ...rest) => {
  if (!/onnxruntime_binding\.node$/.test(filename)) return load(module, filename, ...rest)
  throw Object.assign(new Error(`Error loading shared library ld-linux-x86-64.so.2 (needed by ${filename})`), {
    code: 'ERR_DLOPEN_FAILED',
  })
}
