variable "region" {
  description = "The AWS region of everything here, and of the bucket."
  type        = string
}

variable "bucket" {
  description = "The bucket that jobs read from and write to. It exists already, and stays."
  type        = string
}

variable "input_prefixes" {
  description = "Folders of the bucket that jobs may read documents from; [\"\"] is the whole bucket."
  type        = list(string)
  default     = ["scans", "invoices/images"]
}

variable "output_prefixes" {
  description = "Folders of the bucket that runs are in. Jobs read them too, and may write and delete there, and nowhere else."
  type        = list(string)
  default     = ["runs", "invoices/records"]
}

variable "name" {
  description = "What everything here is called, and begins with. llm-ocr launch expects llm-ocr."
  type        = string
  default     = "llm-ocr"
}

variable "image_tag" {
  description = "Tag of the images, before -gpu and -cpu: the version that make deploy pushed."
  type        = string
  default     = "0.1.0"
}

variable "machines" {
  description = <<-EOT
    The kinds of machines, each with a queue and a job definition NAME-KIND: what one job gets (vcpus,
    memory in MiB, gpus), the instance types it may run on, the most vCPUs at once (max_vcpus), whether
    they are spot instances, and the disk in GB. llm-ocr launch --gpu takes l4 and l40s; cpu is for
    --gpu none and for assemble.
  EOT
  type = map(object({
    instance_types = list(string)
    vcpus          = number
    memory         = number
    gpus           = number
    max_vcpus      = number
    spot           = optional(bool, true)
    disk_gb        = optional(number, 200)
  }))
  default = {
    l4 = {
      instance_types = ["g6.2xlarge", "g6.4xlarge"]
      vcpus          = 8
      memory         = 28000
      gpus           = 1
      max_vcpus      = 64
    }
    cpu = {
      instance_types = ["m7i.2xlarge", "m6i.2xlarge", "m5.2xlarge"]
      vcpus          = 8
      memory         = 28000
      gpus           = 0
      max_vcpus      = 32
      disk_gb        = 60
    }
  }
}

variable "environment" {
  description = "Environment variables of the jobs, over those in jobs.tf: what run-batch-job reads (S3_PREPROCESSED_IMAGES_DIR_PREFIX, MODEL_NAME and others), and LLM_OCR_ settings. No secrets: anybody who sees the job definition sees these."
  type        = map(string)
  default     = {}
}

variable "secrets" {
  description = "Environment variables of the jobs that come from Secrets Manager or the SSM parameter store: name to ARN, such as { HF_TOKEN = \"arn:aws:secretsmanager:...\" }."
  type        = map(string)
  default     = {}
}

variable "daily" {
  description = <<-EOT
    A run each day of what is new: the documents (input) and the run (out), as s3://..., below
    input_prefixes and output_prefixes; on which of machines, and when: a cron or rate expression of
    EventBridge Scheduler, and its time zone. null: none.
  EOT
  type = object({
    input    = string
    out      = string
    machines = optional(string, "l4")
    schedule = optional(string, "cron(0 3 * * ? *)")
    timezone = optional(string, "UTC")
  })
  default = null
}

variable "vpc_id" {
  description = "The VPC of the machines; null takes the default VPC."
  type        = string
  default     = null
}

variable "subnet_ids" {
  description = "Subnets of the machines, with a way to the internet; null takes all of the VPC."
  type        = list(string)
  default     = null
}

variable "log_days" {
  description = "Days that logs are kept."
  type        = number
  default     = 30
}
