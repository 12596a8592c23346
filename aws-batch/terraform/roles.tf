# Four roles: AWS Batch itself, the machines, the agent that starts a container, and the container.

data "aws_iam_policy_document" "trust" {
  for_each = {
    batch     = "batch.amazonaws.com"
    machines  = "ec2.amazonaws.com"
    agent     = "ecs-tasks.amazonaws.com"
    job       = "ecs-tasks.amazonaws.com"
    scheduler = "scheduler.amazonaws.com"
  }

  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = [each.value]
    }
  }
}

# Batch starts and terminates machines.
resource "aws_iam_role" "batch" {
  name               = "${var.name}-batch"
  assume_role_policy = data.aws_iam_policy_document.trust["batch"].json
}

resource "aws_iam_role_policy_attachment" "batch" {
  role       = aws_iam_role.batch.name
  policy_arn = "arn:aws:iam::aws:policy/service-role/AWSBatchServiceRole"
}

# The machines join the cluster.
resource "aws_iam_role" "machines" {
  name               = "${var.name}-machines"
  assume_role_policy = data.aws_iam_policy_document.trust["machines"].json
}

resource "aws_iam_role_policy_attachment" "machines" {
  role       = aws_iam_role.machines.name
  policy_arn = "arn:aws:iam::aws:policy/service-role/AmazonEC2ContainerServiceforEC2Role"
}

resource "aws_iam_instance_profile" "machines" {
  name = "${var.name}-machines"
  role = aws_iam_role.machines.name
}

# The agent pulls the image, reads the secrets, and writes the log.
resource "aws_iam_role" "agent" {
  name               = "${var.name}-agent"
  assume_role_policy = data.aws_iam_policy_document.trust["agent"].json
}

data "aws_iam_policy_document" "agent" {
  statement {
    actions   = ["ecr:GetAuthorizationToken"]
    resources = ["*"] # the action supports no other
  }

  statement {
    actions = [
      "ecr:BatchCheckLayerAvailability",
      "ecr:BatchGetImage",
      "ecr:GetDownloadUrlForLayer",
    ]
    resources = [aws_ecr_repository.images.arn]
  }

  statement {
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = ["${aws_cloudwatch_log_group.jobs.arn}:*"]
  }

  dynamic "statement" {
    for_each = length(local.managed_secrets) > 0 ? [1] : []
    content {
      actions   = ["secretsmanager:GetSecretValue"]
      resources = local.managed_secrets
    }
  }

  dynamic "statement" {
    for_each = length(local.parameters) > 0 ? [1] : []
    content {
      actions   = ["ssm:GetParameters"]
      resources = local.parameters
    }
  }
}

resource "aws_iam_role_policy" "agent" {
  name   = "start-containers"
  role   = aws_iam_role.agent.id
  policy = data.aws_iam_policy_document.agent.json
}

# The container reads documents, and writes its runs.
resource "aws_iam_role" "job" {
  name               = "${var.name}-job"
  assume_role_policy = data.aws_iam_policy_document.trust["job"].json
}

data "aws_iam_policy_document" "job" {
  # For the whole bucket: without it S3 returns 403 instead of 404 for missing objects, which a run
  # often requests. It shows names of objects, not their content.
  statement {
    actions   = ["s3:ListBucket"]
    resources = ["arn:aws:s3:::${var.bucket}"]
  }

  statement {
    actions   = ["s3:GetObject"]
    resources = concat(local.inputs, local.outputs)
  }

  # A run deletes staged parts, replaced shards, and the records of ended sessions, all below its own
  # prefix.
  statement {
    actions   = ["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:PutObject"]
    resources = local.outputs
  }
}

resource "aws_iam_role_policy" "job" {
  name   = "documents-and-runs"
  role   = aws_iam_role.job.id
  policy = data.aws_iam_policy_document.job.json
}

locals {
  inputs  = [for prefix in var.input_prefixes : "arn:aws:s3:::${var.bucket}/${trimprefix("${trim(prefix, "/")}/*", "/")}"]
  outputs = [for prefix in var.output_prefixes : "arn:aws:s3:::${var.bucket}/${trim(prefix, "/")}/*"]

  managed_secrets = [for arn in values(var.secrets) : arn if strcontains(arn, ":secretsmanager:")]
  parameters      = [for arn in values(var.secrets) : arn if strcontains(arn, ":ssm:")]
}
