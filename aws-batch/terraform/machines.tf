# The image and the weights need more than the default disk of 30 GB. With draining, the agent sends
# containers a SIGTERM before a spot instance is reclaimed.
#
# Containers get their role from the agent, at 169.254.170.2, and must not reach the instance's
# metadata, which would give them the instance's role. A hop limit of 1 blocks traffic from a bridge.
# Batch runs containers in the host's network, without such a hop: there the firewall blocks all
# users but root, and the containers' user is not root.
resource "aws_launch_template" "machines" {
  for_each = var.machines

  name                   = "${var.name}-${each.key}"
  update_default_version = true
  user_data = base64encode(join("\n", [
    "MIME-Version: 1.0",
    "Content-Type: multipart/mixed; boundary=\"==BOUNDARY==\"",
    "",
    "--==BOUNDARY==",
    "Content-Type: text/x-shellscript; charset=\"us-ascii\"",
    "",
    "#!/bin/bash",
    "iptables --insert OUTPUT --destination 169.254.169.254 --match owner ! --uid-owner root --jump REJECT",
    "echo ECS_ENABLE_SPOT_INSTANCE_DRAINING=true >> /etc/ecs/ecs.config",
    "--==BOUNDARY==--",
    "",
  ]))

  block_device_mappings {
    device_name = "/dev/xvda"

    ebs {
      volume_size           = each.value.disk_gb
      volume_type           = "gp3"
      encrypted             = true
      delete_on_termination = true
    }
  }

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }
}

resource "aws_batch_compute_environment" "machines" {
  for_each = var.machines

  # A replacement is created before the old one is destroyed.
  name_prefix  = "${var.name}-${each.key}-"
  type         = "MANAGED"
  service_role = aws_iam_role.batch.arn

  compute_resources {
    type                = each.value.spot ? "SPOT" : "EC2"
    allocation_strategy = each.value.spot ? "SPOT_PRICE_CAPACITY_OPTIMIZED" : "BEST_FIT_PROGRESSIVE"
    instance_type       = each.value.instance_types
    instance_role       = aws_iam_instance_profile.machines.arn
    min_vcpus           = 0
    max_vcpus           = each.value.max_vcpus
    subnets             = local.subnet_ids
    security_group_ids  = [aws_security_group.machines.id]

    ec2_configuration {
      image_type = each.value.gpus > 0 ? "ECS_AL2023_NVIDIA" : "ECS_AL2023"
    }

    launch_template {
      launch_template_id = aws_launch_template.machines[each.key].id
      version            = "$Latest"
    }
  }

  lifecycle {
    create_before_destroy = true
  }

  # Without these permissions Batch could not terminate the machines.
  depends_on = [aws_iam_role_policy_attachment.batch]
}

resource "aws_batch_job_queue" "jobs" {
  for_each = var.machines

  name     = "${var.name}-${each.key}"
  state    = "ENABLED"
  priority = 1

  compute_environment_order {
    order               = 1
    compute_environment = aws_batch_compute_environment.machines[each.key].arn
  }
}

locals {
  subnet_ids = var.subnet_ids == null ? data.aws_subnets.machines.ids : var.subnet_ids
}
