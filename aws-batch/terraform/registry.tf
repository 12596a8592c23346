resource "aws_ecr_repository" "images" {
  name = var.name
  # `make deploy` may push the same version again.
  image_tag_mutability = "MUTABLE"
  # The images can be built again from the repository.
  force_delete = true

  image_scanning_configuration {
    scan_on_push = true
  }
}

resource "aws_ecr_lifecycle_policy" "images" {
  repository = aws_ecr_repository.images.name
  policy = jsonencode({
    rules = [{
      rulePriority = 1
      description  = "Images whose tag went to another are kept for a week."
      selection = {
        tagStatus   = "untagged"
        countType   = "sinceImagePushed"
        countUnit   = "days"
        countNumber = 7
      }
      action = { type = "expire" }
    }]
  })
}
