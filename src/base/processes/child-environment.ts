/**
 * What of its parent's environment a child process is given: an allow-list by what the child does.
 *
 * The environment of a server holds passwords (of a database, a bucket, a cluster, a hub), and a child reads what strangers send: whoever
 * makes it read its own memory or environment must find nothing there. What only one child uses is given to it by name at its start.
 */
import type { Environment } from '#base/environment.js'

/** `computing`: runs kernels, on cards too. `python`: is an interpreter, or starts one. `calling`: asks a server elsewhere by Node. */
export type ChildNeed = 'computing' | 'python' | 'calling'

interface Names {
  readonly exact: readonly string[]
  readonly prefixes: readonly string[]
}

/** Names as they are; prefixes end with an underscore or are followed by what belongs to the same program. */
const EVERY_CHILD: Names = {
  exact: [
    ...['PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'TMPDIR', 'TEMP', 'TMP', 'TZ', 'TZDIR', 'LANG', 'LANGUAGE'],
    // how the dynamic linker, the C library and Node find and set up what every process loads
    ...['LD_LIBRARY_PATH', 'LD_PRELOAD', 'GLIBC_TUNABLES', 'NODE_OPTIONS', 'NODE_EXTRA_CA_CERTS', 'NODE_USE_SYSTEM_CA'],
    ...['UV_THREADPOOL_SIZE', 'SSL_CERT_FILE', 'SSL_CERT_DIR', 'OPENSSL_CONF', 'TRAINYARD_LOG'],
    // Windows starts nothing without them
    ...['SYSTEMROOT', 'SYSTEMDRIVE', 'WINDIR', 'COMSPEC', 'PATHEXT', 'OS', 'USERNAME', 'USERPROFILE', 'HOMEDRIVE'],
    ...['HOMEPATH', 'APPDATA', 'LOCALAPPDATA', 'PROGRAMDATA', 'PROGRAMFILES', 'NUMBER_OF_PROCESSORS'],
  ],
  prefixes: ['LC_', 'DYLD_', 'MALLOC_', 'FAKETIME', 'PROCESSOR_'],
}

const BY_NEED: Readonly<Record<ChildNeed, Names>> = {
  computing: {
    exact: ['XDG_RUNTIME_DIR', 'XDG_CACHE_HOME', 'XDG_DATA_DIRS', 'DISPLAY', 'WAYLAND_DISPLAY'],
    prefixes: [
      ...['OMP_', 'GOMP_', 'KMP_', 'MKL_', 'OPENBLAS_', 'VECLIB_', 'ORT_', 'ONNX_'],
      ...['CUDA_', 'CUDNN_', 'CUBLAS_', 'NVIDIA_', 'NCCL_', 'HIP_', 'HSA_', 'ROCM_', 'ROCR_', 'PYTORCH_', 'TORCH_'],
      ...['VK_', 'VULKAN_', 'DAWN_', 'MESA_', 'GALLIUM_', 'LIBGL_', 'LP_', 'DRI_', 'TENSORRT_'],
    ],
  },
  // a proxy's address may hold its password: only who calls through it is given it
  calling: {
    exact: ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY', 'NODE_USE_ENV_PROXY'],
    prefixes: [],
  },
  python: {
    exact: ['VIRTUAL_ENV', 'CONDA_PREFIX', 'CONDA_DEFAULT_ENV', 'PYENV_VERSION', 'PYENV_ROOT', 'CC', 'CXX'],
    prefixes: [
      'PYTHON',
      'TORCHINDUCTOR_',
      'TRITON_',
      'VLLM_',
      'HF_HOME',
      'HF_HUB_CACHE',
      'TRANSFORMERS_',
      'GLOO_',
      'UCX_',
    ],
  },
}

/** Beside a prefix that is allowed: `VLLM_API_KEY`, `NCCL_…_TOKEN`. */
const SECRET = /KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH/

/** Names, with commas between, that the operator adds: of libraries nobody here knows. */
export const PASSED_VARIABLE = 'TRAINYARD_PASS_ENVIRONMENT'

/**
 * The part of an environment that a child is given.
 *
 * @param needs what the child does, beyond what every process needs
 * @example childEnvironment({ PATH: '/bin', PGPASSWORD: 'x', OMP_NUM_THREADS: '2' }, ['computing']) // PATH and OMP_NUM_THREADS
 */
export function childEnvironment(environment: Environment, needs: readonly ChildNeed[] = []): Environment {
  const lists = [EVERY_CHILD, ...needs.map((need) => BY_NEED[need])]
  const exact = new Set(lists.flatMap((list) => list.exact))
  const prefixes = lists.flatMap((list) => list.prefixes)
  const added = (environment[PASSED_VARIABLE] ?? '').split(',').map((name) => name.trim())
  const passed = new Set([...added.filter((name) => name !== ''), PASSED_VARIABLE])
  const isAllowed = (name: string): boolean => {
    // Windows has `Path` and `SystemRoot`; proxies are written both ways everywhere
    const upper = name.toUpperCase()
    if (passed.has(name) || exact.has(upper)) return true
    return prefixes.some((prefix) => upper.startsWith(prefix)) && !SECRET.test(upper)
  }
  const given = Object.fromEntries(Object.entries(environment).filter(([name]) => isAllowed(name)))
  return needs.includes('calling') ? { ...given, ...withoutProxies(given) } : given
}

/** What a child itself starts or asks on this machine is behind no proxy. */
function withoutProxies(given: Environment): Environment {
  if (!Object.keys(given).some((name) => /^https?_proxy$/i.test(name))) return {}
  // of the two spellings Node reads the small one first
  const said = [given['no_proxy'] ?? given['NO_PROXY'] ?? '', '127.0.0.1', 'localhost', '[::1]']
  const list = said.filter((names) => names !== '').join(',')
  return { NO_PROXY: list, no_proxy: list }
}
