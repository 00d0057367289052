/**
 * Settings of what is told about training to programs that draw curves.
 */
import { defineSettings } from '#contract/settings/setting.js'

export const metricsExportSettings = defineSettings({
  /** `GET /metrics`, which asks for no key, names models and what their jobs reach. Default false. */
  jobMetrics: {
    key: 'job-metrics',
    type: 'boolean',
    default: false,
    summary: 'let GET /metrics name models, with reward, loss and tokens a second of their jobs, and cards',
  },
  /** `mlflow=http://host:5000`, `tensorboard=DIR`: what jobs measure is sent there. Default none. */
  report: {
    key: 'report',
    type: 'list',
    default: [],
    flag: '--report <tracker>',
    summary: 'send what jobs measure to a tracker: mlflow=http://host:5000, tensorboard=DIR',
  },
})
