/**
 * What a worker of this machine is, as its jobs tell it.
 */
import { createRequire } from 'node:module'
import { hostname } from 'node:os'
import { packageVersion } from '#base/util/package-root.js'
import type { WorkerFacts } from '#contract/wire/training/worker-facts.js'

/** @param name what people call it; default the machine's name */
export function workerFacts(name = hostname()): WorkerFacts {
  const runtime = runtimeVersion()
  return {
    name: name.slice(0, 128) || 'worker',
    trainer: 'onnx',
    device: 'cpu',
    versions: {
      trainyard: packageVersion(),
      node: process.versions.node,
      ...(runtime === null ? {} : { onnxruntime: runtime }),
    },
  }
}

/** The runtime itself is not loaded: only processes that compute do that. */
function runtimeVersion(): string | null {
  try {
    const facts: unknown = createRequire(import.meta.url)('trainyard-onnxruntime/package.json')
    return String((facts as { readonly version?: unknown }).version)
  } catch {
    return null
  }
}
