data "aws_vpc" "machines" {
  id      = var.vpc_id
  default = var.vpc_id == null ? true : null
}

data "aws_subnets" "machines" {
  filter {
    name   = "vpc-id"
    values = [data.aws_vpc.machines.id]
  }
}

resource "aws_security_group" "machines" {
  name        = "${var.name}-machines"
  description = "Machines of ${var.name}: nothing comes in, HTTPS goes out."
  vpc_id      = data.aws_vpc.machines.id
}

# S3, ECR, CloudWatch, Secrets Manager and the Hugging Face Hub.
resource "aws_vpc_security_group_egress_rule" "https" {
  security_group_id = aws_security_group.machines.id
  description       = "HTTPS to anywhere"
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
  cidr_ipv4         = "0.0.0.0/0"
}
