# Images and AWS Batch; included by the Makefile at the root.
#
#   make deploy ECR_ACCOUNT_ID=123456789012      images into ECR, its repository made where it isn't there
#   make aws-batch-apply                         queues, job definitions and roles, with Terraform
#
# AWS_REGION is the region; ECR_REPO_NAME, what the repository is called, is the module's `name`.
DOCKER ?= docker
TERRAFORM ?= terraform -chdir=aws-batch/terraform
# Asked when they are first needed, and once: `aws` takes a second to start.
AWS_REGION ?= $(eval AWS_REGION := $(or $(AWS_DEFAULT_REGION),$(shell aws configure get region \
	2>/dev/null)))$(AWS_REGION)
ECR_ACCOUNT_ID ?= $(eval ECR_ACCOUNT_ID := $(shell aws sts get-caller-identity --query Account \
	--output text))$(ECR_ACCOUNT_ID)
ECR_REPO_NAME ?= llm-ocr
IMAGE_VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml | head -n 1)
REGISTRY = $(ECR_ACCOUNT_ID).dkr.ecr.$(AWS_REGION).amazonaws.com
# What asks whether the repository is there.
ECR_REPOSITORY = aws ecr describe-repositories --region $(AWS_REGION) --registry-id $(ECR_ACCOUNT_ID) \
	--repository-names $(ECR_REPO_NAME) --query 'repositories[0].repositoryUri' --output text
# SageMaker's folders belong to root: the first process of its images runs as root, too.
IMAGES = gpu cpu gpu-root cpu-root

.PHONY: deploy aws-images push-images aws-batch-apply aws-batch-destroy
.PHONY: aws-region aws-login aws-repository

deploy: aws-repository push-images
# Images are only built after a successful login.
ifneq ($(filter deploy,$(MAKECMDGOALS)),)
$(IMAGES:%=aws-image-%): aws-repository
endif

aws-images: $(IMAGES:%=aws-image-%)

aws-image-%:
	$(DOCKER) build --platform linux/amd64 -f containers/$(firstword $(subst -, ,$*)).Dockerfile \
		--build-arg VERSION=$(IMAGE_VERSION) $(if $(findstring root,$*),--build-arg RUN_AS=root) \
		-t llm-ocr:$(IMAGE_VERSION)-$* .

push-images: aws-region $(IMAGES:%=push-image-%)

push-image-%: aws-image-% aws-login
	$(DOCKER) tag llm-ocr:$(IMAGE_VERSION)-$* $(REGISTRY)/$(ECR_REPO_NAME):$(IMAGE_VERSION)-$*
	$(DOCKER) push $(REGISTRY)/$(ECR_REPO_NAME):$(IMAGE_VERSION)-$*

aws-region:
	@test -n "$(AWS_REGION)" || { echo "set AWS_REGION, such as us-east-1" >&2; exit 2; }

aws-login: aws-region
	aws ecr get-login-password --region $(AWS_REGION) | \
		$(DOCKER) login --username AWS --password-stdin $(REGISTRY)

aws-repository: aws-login
	@$(ECR_REPOSITORY) 2>/dev/null || \
		aws ecr create-repository --region $(AWS_REGION) --registry-id $(ECR_ACCOUNT_ID) \
			--repository-name $(ECR_REPO_NAME) --image-scanning-configuration scanOnPush=true \
			--query repository.repositoryUri --output text

# The repository is the module's; one that `make deploy` made before becomes so.
aws-batch-apply: aws-region
	$(TERRAFORM) init -input=false
	@if $(TERRAFORM) state list 2>/dev/null | grep -q '^aws_ecr_repository.images$$'; then :; \
	elif $(ECR_REPOSITORY) >/dev/null 2>&1; then \
		$(TERRAFORM) import -input=false aws_ecr_repository.images $(ECR_REPO_NAME); fi
	$(TERRAFORM) apply

aws-batch-destroy:
	$(TERRAFORM) destroy
