resource "aws_cloudwatch_log_group" "jobs" {
  name              = "/aws/batch/${var.name}"
  retention_in_days = var.log_days
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
    secrets = jsonencode([for name, arn in var.secrets : { name = name, valueFrom = arn }])
  })

  # What matches none of these is tried again: exit codes 3, 4, 137 and 143, for instance.
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
