resource "aws_cloudwatch_log_group" "jobs" {
  name              = "/aws/batch/${var.name}"
  retention_in_days = var.log_days
}

locals {
  # The default for a job that is submitted without a command: see docs/aws-batch.md, "A job told by
  # variables". `llm-ocr launch` sets its own command and variables.
  job_environment = {
    AWS_REGION                        = var.region
    S3_BUCKET                         = var.bucket
    S3_PREPROCESSED_IMAGES_DIR_PREFIX = "invoices/images"
    S3_PROCESSED_DATASET_PREFIX       = "invoices/records"
    MODEL_NAME                        = "Qwen/Qwen2.5-VL-3B-Instruct"
    SCHEMA                            = "invoice"
    MAX_MODEL_LEN                     = "16384"
    GPU_MEMORY_UTILIZATION            = "0.9"
    MAX_TOKENS                        = "4096"
    TEMPERATURE                       = "0"
  }
}

resource "aws_batch_job_definition" "jobs" {
  for_each = var.machines

  name                  = "${var.name}-${each.key}"
  type                  = "container"
  platform_capabilities = ["EC2"]

  container_properties = templatefile("${path.module}/container.json.tftpl", {
    image     = "${aws_ecr_repository.images.repository_url}:${var.image_tag}-${each.value.gpus > 0 ? "gpu" : "cpu"}"
    job_role  = aws_iam_role.job.arn
    agent     = aws_iam_role.agent.arn
    log_group = aws_cloudwatch_log_group.jobs.name
    region    = var.region
    resources = jsonencode([
      for kind, amount in { VCPU = each.value.vcpus, MEMORY = each.value.memory, GPU = each.value.gpus } :
      { type = kind, value = tostring(amount) } if amount > 0
    ])
    environment = jsonencode([
      for name, value in merge(local.job_environment, var.environment) : { name = name, value = value }
    ])
    secrets = jsonencode([for name, arn in var.secrets : { name = name, valueFrom = arn }])
  })

  # Failures that match none of these are retried: exit codes 3, 4, 137 and 143, for instance.
  retry_strategy {
    attempts = 3

    evaluate_on_exit {
      on_status_reason = "Host EC2*"
      action           = "RETRY"
    }

    evaluate_on_exit {
      on_reason = "OutOfMemoryError*"
      action    = "EXIT"
    }

    evaluate_on_exit {
      on_exit_code = "1"
      action       = "EXIT"
    }

    evaluate_on_exit {
      on_exit_code = "2"
      action       = "EXIT"
    }

    evaluate_on_exit {
      on_exit_code = "5"
      action       = "EXIT"
    }
  }

  timeout {
    attempt_duration_seconds = 14400
  }
}
