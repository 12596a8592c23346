# A daily run of new documents: EventBridge Scheduler submits the job as a user would.
resource "aws_scheduler_schedule" "daily" {
  count = var.daily == null ? 0 : 1

  name                         = "${var.name}-daily"
  description                  = "llm-ocr run --update of ${var.daily.input}"
  schedule_expression          = var.daily.schedule
  schedule_expression_timezone = var.daily.timezone

  flexible_time_window {
    mode = "OFF"
  }

  target {
    # A target can be any AWS API request; its parameters begin with capital letters.
    arn      = "arn:aws:scheduler:::aws-sdk:batch:submitJob"
    role_arn = aws_iam_role.scheduler[0].arn
    input = templatefile("${path.module}/daily.json.tftpl", {
      name       = "${var.name}-daily"
      queue      = aws_batch_job_queue.jobs[var.daily.machines].name
      definition = aws_batch_job_definition.jobs[var.daily.machines].name
      input      = var.daily.input
      out        = var.daily.out
      region     = var.region
    })

    # Two jobs would share the work; one is enough.
    retry_policy {
      maximum_retry_attempts = 3
    }
  }
}

resource "aws_iam_role" "scheduler" {
  count = var.daily == null ? 0 : 1

  name               = "${var.name}-scheduler"
  assume_role_policy = data.aws_iam_policy_document.trust["scheduler"].json
}

# The newest revision of a job definition.
data "aws_iam_policy_document" "scheduler" {
  count = var.daily == null ? 0 : 1

  statement {
    actions = ["batch:SubmitJob"]
    resources = [
      aws_batch_job_queue.jobs[var.daily.machines].arn,
      aws_batch_job_definition.jobs[var.daily.machines].arn_prefix,
      "${aws_batch_job_definition.jobs[var.daily.machines].arn_prefix}:*",
    ]
  }
}

resource "aws_iam_role_policy" "scheduler" {
  count = var.daily == null ? 0 : 1

  name   = "submit-jobs"
  role   = aws_iam_role.scheduler[0].id
  policy = data.aws_iam_policy_document.scheduler[0].json
}
